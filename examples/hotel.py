"""What the assistants of these examples want to know: a pydantic model of five fields. Nothing here knows somdst."""

from pydantic import BaseModel, Field


class Hotel(BaseModel):
    area: str = Field(description="part of town")
    pricerange: str = Field(description="price of the hotel, such as cheap")
    day: str = Field(description="day of arrival")
    nights: int = Field(1, description="number of nights")
    parking: bool = Field(False, description="whether the hotel has parking")
