// A press on a cell of the heat map opens its run. gradio runs this when the map is drawn.
element.addEventListener('click', (event) => {
  const cell = event.target.closest('button[data-place]');
  if (cell) trigger('select', {place: Number(cell.dataset.place)});
});
