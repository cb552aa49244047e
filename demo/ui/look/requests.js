// address.js sends a followed link to the server through this element.
window.followLink = (query, way) => trigger('select', { query, way });
