"""What the assistants of these examples want to know: a pydantic model of five fields. Nothing here knows somdst."""

from typing import Literal

from pydantic import BaseModel, Field


class Hotel(BaseModel):
    area: Literal["north", "south", "east", "west", "centre"] = Field(description="part of town of the hotel")
    pricerange: Literal["cheap", "moderate", "expensive"] = Field(description="price of the hotel")
    stars: int | None = Field(None, description="number of stars of the hotel")
    parking: bool | None = Field(None, description="whether the hotel has parking")
    internet: bool | None = Field(None, description="whether the hotel has internet")
