// gradio's loading animation is removed as the page appears, but goes on to ask for 60 frames a second. For these,
// Chromium takes a tenth of a core from the timed model. Once the page is there, no animation of a status is drawn.
// gradio's modules keep the function that they find as they are loaded: this script must run before them.
(() => {
  const frame = window.requestAnimationFrame.bind(window);
  const ofStatus = () => new Error().stack.includes('/statustracker-');
  window.requestAnimationFrame = draw => (document.getElementById('masthead') && ofStatus() ? 0 : frame(draw));
})();
