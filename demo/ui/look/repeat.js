// For the element that holds the button. The next answer replaces the button, so each press names its run.
element.addEventListener('click', event => {
  const button = event.target.closest('button[data-repeat]');
  if (button) trigger('select', { run: button.dataset.repeat });
});
