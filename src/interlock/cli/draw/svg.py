"""What the pictures in SVG files have in common: colours, texts, numbers."""

COLOURS = {
    "text": ("#1f2328", "#e6edf3"), ".dim": ("#57606a", "#9198a1"), ".paper": ("#ffffff", "#0d1117"),
    ".stripe": ("#f6f8fa", "#161b22"), ".line": ("#d8dee4", "#30363d"), ".day": ("#8c959f", "#6e7681"),
    ".change": ("#cf222e", "#f85149"), ".run": ("#1f6feb", "#4493f8"), ".many": ("#80b3ff", "#2a5a9e"),
    ".wait": ("#e3b341", "#d29922"), ".missed": ("#cf222e", "#f85149"), ".bad": ("#8250df", "#ab7df8"),
}  # fmt: skip
"""colours on a light and a dark screen; written out, because some viewers know no CSS variables"""
LINES = (".line", ".day", ".change")
LAYOUT = (
    "text{font:12px sans-serif}.title{font-size:16px;font-weight:bold}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.line,.day,.change{fill:none}.change{stroke-dasharray:3}"
)
CHARACTER = 6.7  # width


def head(width: float, height: float, title: str) -> list[str]:
    """Return the first lines of a file, up to the title; `title` is escaped."""
    size = f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{title}</title>",
        _style(),
        f'<rect class="paper" width="{number(width)}" height="{number(height)}"/>',
        text(16, 28, title, "title"),
    ]


def _style() -> str:
    light, dark = (
        "".join(f"{name}{{{'stroke' if name in LINES else 'fill'}:{both[place]}}}" for name, both in COLOURS.items())
        for place in (0, 1)
    )
    return f"<style>{LAYOUT}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return a text; `content` is escaped."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{number(x)}" y="{number(y)}">{content}</text>'


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
