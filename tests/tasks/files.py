"""Writes the files of tests."""


def write(path, content):
    """Writes a string or bytes, and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
