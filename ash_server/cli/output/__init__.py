"""What commands print: terminal output, messages, events, and pages in a browser."""
