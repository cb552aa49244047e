// The page must leave the machine to what it times. gradio's clock of a pending event asks for every animation frame, and
// never stops where its component goes meanwhile (the page's own loader does): a twentieth of a core, as long as the page
// is open. So a callback that has asked for itself again in every frame for two seconds gets one every five seconds. Such
// loops are told apart by their code; no animation of this page lasts that long. What an event asks for is no loop.
(() => {
  const LONG = 2_000, REST = 5_000;
  const frame = window.requestAnimationFrame.bind(window);
  const begun = new Map();
  let running = null;
  window.requestAnimationFrame = callback => {
    const now = performance.now(), code = String(callback);
    const run = time => {
      const outer = running;
      running = code;
      try {
        callback(time);
      } finally {
        running = outer;
      }
    };
    if (running !== code) begun.set(code, now);
    if (now - begun.get(code) < LONG) return frame(run);
    setTimeout(() => frame(run), REST - now % REST); // all of them in the same frame
    return 0;
  };
})();
