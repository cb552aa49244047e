// On huggingface.co/spaces the page stands in a frame, and the address bar is the outer page's: it takes over a query that
// it is told. Parameters that begin with two underscores are the frame's own.
window.tellTheSpace = (address, at = location.hostname) => {
  if (!at.endsWith('.hf.space') || window.parent === window) return;
  const query = new URLSearchParams(address.search);
  for (const name of [...query.keys()]) if (name.startsWith('__')) query.delete(name);
  window.parent.postMessage({ queryString: query.toString(), hash: '' }, 'https://huggingface.co');
};

// Stage mode. The class on the root element is its only state; ?stage=1 in the address keeps it over a reload.
// On a narrow window, which has no room for it, the address opens the page as it otherwise is.
(() => {
  const root = document.documentElement;
  const keys = KEYS_TO_BUTTONS;
  const typing = 'input, textarea, select, [contenteditable], [role=textbox], [role=combobox]';

  const wide = matchMedia('(min-width: 801px)');

  const show = on => {
    root.classList.toggle('on-stage', on);
    const address = new URL(location);
    if (on) address.searchParams.set('stage', '1');
    else address.searchParams.delete('stage');
    history.replaceState(history.state, '', address);
    window.tellTheSpace(address);
    if (on) document.querySelector('#rooms button[role=tab]')?.click();
    window.dispatchEvent(new Event('resize'));  // Plotly draws its charts to the new width
  };

  const fit = () => root.classList.toggle('on-stage', wide.matches && new URLSearchParams(location.search).get('stage') === '1');
  fit();
  wide.addEventListener('change', fit);

  document.addEventListener('click', event => {
    const button = event.target.closest?.('[data-stage]');
    if (!button) return;
    show(button.dataset.stage === 'on');
    document.querySelector(`[data-stage="${root.classList.contains('on-stage') ? 'off' : 'on'}"]`)?.focus();
  });

  // On a keyboard that writes no Latin letters, or digits only with Shift, the key's place on a US one says which it is.
  const named = event => {
    const typed = event.key.toLowerCase();
    return /^[a-z0-9]$/.test(typed) ? typed : (/^(?:Key|Digit)(.)$/.exec(event.code)?.[1] ?? typed).toLowerCase();
  };

  document.addEventListener('keydown', event => {
    if (!root.classList.contains('on-stage') || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.(typing)) return;
    const key = named(event);
    if (key === 'd') document.body.classList.toggle('dark');
    else if (keys[key]) document.getElementById(keys[key])?.click();
    else return;
    event.preventDefault();
  });
})();
