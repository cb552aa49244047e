"""How the page looks: theme, style sheets, and the scripts that run in the browser."""
