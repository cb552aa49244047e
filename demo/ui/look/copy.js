// A button with data-address copies the link to what is shown, and says whether that worked: on a Space the address of the
// outer page (data-address), because a visitor does not see that of the frame. Before a run the settings of the form are
// what is shown; the forecast beside Run has them as a query.
(() => {
  const copy = async text => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {  // no permission, or a page that is not served over https
      const field = Object.assign(document.createElement('textarea'), { value: text });
      document.body.append(field);
      field.select();
      const done = document.execCommand('copy');
      field.remove();
      return done;
    }
  };
  document.addEventListener('click', async event => {
    const button = event.target.closest?.('button[data-address]');
    if (!button) return;
    const here = new URL(location), outer = button.dataset.address, given = here.searchParams;
    const asked = !given.has('tab') && !given.has('run') && document.querySelector('#forecast [data-query]')?.dataset.query;
    for (const name of [...given.keys()]) if (name.startsWith('__') || asked) given.delete(name);
    for (const [name, value] of new URLSearchParams(asked || '')) given.set(name, value);
    const before = button.dataset.words ??= button.textContent;
    button.textContent = (await copy(outer ? outer + here.search : here.href)) ? button.dataset.done : button.dataset.failed;
    setTimeout(() => { button.textContent = before; }, 2000);
    button.focus();
  });
})();
