// Moves the edge between the two pictures, by the range input or by dragging.
const show = range => range.closest('.slide').style.setProperty('--at', range.value + '%');
element.addEventListener('input', event => {
  if (event.target.matches('.slide [type=range]')) show(event.target);
});
const drag = event => {
  const pair = event.target.closest('.slide .pair');
  if (!pair || !(event.buttons & 1)) return;
  const box = pair.getBoundingClientRect(), range = pair.parentElement.querySelector('[type=range]');
  range.value = (event.clientX - box.left) / box.width * 100;
  show(range);
  if (event.type === 'pointerdown') pair.setPointerCapture(event.pointerId);
};
element.addEventListener('pointerdown', drag);
element.addEventListener('pointermove', drag);

// Writes both texts again, each token after the time that it took.
element.addEventListener('click', event => {
  const written = event.target.closest('.play')?.closest('.written');
  if (!written) return;
  written.classList.remove('playing');
  void written.offsetWidth;  // without a layout in between the animation would not begin anew
  written.classList.add('playing');
});
