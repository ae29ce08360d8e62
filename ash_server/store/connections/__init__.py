"""Connections to PostgreSQL: pools, tenants, pipelines and replicas."""
