"""What stands between a request and the page: limits and allowed routes."""
