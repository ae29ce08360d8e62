"""Import transcript files into sessions."""
