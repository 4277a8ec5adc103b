"""What HTML reports are made of: templates, charts, sections."""
