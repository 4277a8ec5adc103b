"""report.html, one page for each study."""
