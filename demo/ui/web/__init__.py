"""What stands between a request and the page: limits, allowed routes, the visitor's language."""
