"""Stores and exports results, and reads the published tables and this project's tables of latencies."""
