"""The frame of the report's HTML page: style, navigation, sections, tiles. Self-contained: it names no other host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    html: str
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that opens the page."""

    name: str
    figure: str
    beside: str = ""
    """What to compare it with."""


def page(title: str, subtitle: str, tiles: Sequence[Tile], sections: Sequence[Section]) -> str:
    links = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>'
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>"
        f'<div class="tiles">{"".join(map(_tile, tiles))}</div></header><nav>{links}</nav>'
        f"<main>{''.join(map(_section, sections))}</main></body></html>\n"
    )


def picture(title: str, drawing: str, note: str = "") -> str:
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    return f'<figure class="picture"><h3>{escape(title)}</h3>{drawing}{caption}</figure>'


def grid(*figures: str) -> str:
    """Side by side where there is room."""
    return f'<div class="grid">{"".join(figures)}</div>'


def column(*figures: str) -> str:
    """Below each other, as one cell of a grid."""
    return f'<div class="column">{"".join(figures)}</div>'


def _tile(tile: Tile) -> str:
    beside = f"<small>{escape(tile.beside)}</small>" if tile.beside else ""
    return f'<div class="tile"><span>{escape(tile.name)}</span><strong>{escape(tile.figure)}</strong>{beside}</div>'


def _section(section: Section) -> str:
    lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{lead}{section.html}</section>'


_STYLE = """
:root { --ink:#16202c; --soft:#5b6776; --muted:#8b96a5; --grid:#e6eaf0; --page:#f5f7fa; --card:#fff; --ours:#2563eb;
  --paper:#a3aebd; --good:#16803c; --bad:#cf2f2f; --warn:#e0930f; --wash:#eaf1fe; color-scheme:light dark }
@media (prefers-color-scheme: dark) { :root { --ink:#e6ebf2; --soft:#a4b0bf; --muted:#76828f; --grid:#2b3542;
  --page:#10151c; --card:#19202a; --ours:#6a9bff; --paper:#66727f; --good:#3fb768; --bad:#f16a6a; --warn:#e9ac45;
  --wash:#1d2b45 } }
* { box-sizing:border-box }
body { margin:0; background:var(--page); color:var(--ink); font:15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif }
header, main { max-width:1120px; margin:0 auto; padding:0 24px }
header { padding-top:36px } h1 { margin:0; font-size:28px; letter-spacing:-.02em } header p { margin:4px 0 20px; color:var(--soft) }
.tiles { display:grid; grid-template-columns:repeat(auto-fit, minmax(150px, 1fr)); gap:12px }
.tile { background:var(--card); border:1px solid var(--grid); border-radius:12px; padding:14px 16px }
.tile span { display:block; color:var(--soft); font-size:13px } 
.tile strong { display:block; line-height:1.25; font-size:27px; letter-spacing:-.02em }
.tile small { display:block; color:var(--muted); font-size:12px }
nav { position:sticky; top:0; z-index:1; background:var(--page); border-bottom:1px solid var(--grid); margin-top:22px;
  padding:10px max(24px, calc(50% - 536px)); display:flex; gap:6px 20px; flex-wrap:wrap }
nav a { color:var(--soft); text-decoration:none; font-size:14px } nav a:hover { color:var(--ours) }
section { padding-top:14px; scroll-margin-top:44px } h2 { margin:18px 0 4px; font-size:20px; letter-spacing:-.01em }
.lead { margin:0 0 12px; color:var(--soft); max-width:76ch }
figure { margin:0 0 16px; background:var(--card); border:1px solid var(--grid); border-radius:12px; padding:16px 18px; min-width:0 }
figure h3 { margin:0 0 8px; font-size:15px } figcaption { margin-top:8px; color:var(--soft); font-size:13px; max-width:90ch }
figure div { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-size:14px; font-variant-numeric:tabular-nums }
th, td { text-align:left; padding:5px 10px; border-bottom:1px solid var(--grid) }
th { color:var(--soft); font-weight:600; font-size:12.5px; vertical-align:bottom } tbody tr:last-child td { border-bottom:0 }
.number { text-align:right; white-space:nowrap } tr.ours td { background:var(--wash); font-weight:600 }
.grid { display:grid; grid-template-columns:repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap:16px; align-items:start }
.grid > figure { margin:0 } .grid { margin-bottom:16px } .column > :last-child { margin-bottom:0 }
svg { display:block; width:100%; height:auto; margin:0 auto } svg text { fill:var(--soft); font-size:12px }
svg text.name { fill:var(--ink); font-weight:600 } svg text.strong { fill:var(--ink); font-weight:600; font-size:13px } svg text.small { font-size:11px; font-weight:400 }
.legend { margin:6px 0 0; display:flex; gap:18px; justify-content:center; font-size:13px; color:var(--soft) }
.legend i { display:inline-block; width:11px; height:11px; border-radius:3px; margin-right:6px }
.sample { background:var(--card); border:1px solid var(--grid); border-radius:12px; padding:14px 18px; margin:0 0 16px }
.sample summary { cursor:pointer } .sample summary span { color:var(--soft); margin-left:8px } .sample ol, .sample ul { list-style:none; margin:0; padding:0 }
.turn { display:grid; grid-template-columns:minmax(0, 1fr) minmax(0, 1fr); gap:22px; padding:14px 0; border-top:1px solid var(--grid) }
.sample ol { margin-top:12px } .said h4 { margin:0 0 6px; font-size:13px; color:var(--soft); font-weight:600 }
.said p { margin:0 0 6px; padding:8px 12px; border-radius:12px; width:fit-content; max-width:92% }
.system { background:var(--page) } .user { background:var(--wash); margin-left:auto !important } mark { background:none; color:inherit; box-shadow:inset 0 -2px var(--ours) }
.state { font-size:13.5px } .state li { padding:2px 9px; border-left:3px solid transparent } .state span { color:var(--soft) }
.state b { font-weight:600 } .state em { font-style:normal; font-size:11px; color:var(--soft); border:1px solid var(--grid); border-radius:6px; padding:0 5px; margin-left:6px }
.state small { color:var(--bad); margin-left:8px } .state .changed { border-color:var(--ours); background:var(--wash) } .state .changed b { color:var(--ours) }
.state .wrong b, .state .extra b { color:var(--bad) } .state .missing b { color:var(--muted); font-weight:400 } .state .wrong, .state .extra, .state .missing { border-color:var(--bad) }
.state .empty { color:var(--muted) } b.right { color:var(--good) } b.wrong { color:var(--bad) }
@media (max-width: 720px) { .turn { grid-template-columns:1fr; gap:8px } header, main { padding-left:14px; padding-right:14px } }
@media print { nav { display:none } figure, .turn { break-inside:avoid } }
"""  # noqa: E501
