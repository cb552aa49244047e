"""Stores and exports results, and reads the tables of published and measured latencies."""
