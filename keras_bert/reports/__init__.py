"""report.html, the HTML report of a study."""
