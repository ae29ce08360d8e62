"""`ash forward`: send sessions as traces to an OpenTelemetry backend."""
