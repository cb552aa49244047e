// A press on a cell of the sweep's map, or on a way of the search's table, opens its run. gradio runs this when it is
// drawn. A link that is to be opened in a new tab is left alone.
element.addEventListener('click', (event) => {
  const place = event.target.closest('[data-place]');
  if (!place || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  trigger('select', {place: Number(place.dataset.place)});
});
