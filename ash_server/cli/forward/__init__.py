"""`ash forward`: send sessions as traces to a backend for OpenTelemetry."""
