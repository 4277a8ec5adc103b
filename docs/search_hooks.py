"""The search of the documentation site: guides come first, and pages that are opened from a disk have it, too."""

import pathlib


def on_page_markdown(markdown, page, **kwargs):
    """Ranks tutorials and guides above the API reference."""
    if page.file.src_uri.startswith(("guides/", "tutorials/")):
        page.meta["search"] = {"boost": 3}


def on_post_build(config):
    """Writes the index as a script, too: from a disk, browsers load no JSON."""
    index = pathlib.Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")
