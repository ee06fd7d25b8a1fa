'use strict';
// Why a prefix is told, or not: the agent's own sentences.

const Explain = (() => {
  const { el, fill } = Draw;
  let root = null;
  let input = null;
  let answer = null;
  let prefix = '';

  const build = () => {
    input = el('input', { type: 'search', id: 'explain-prefix', autocomplete: 'off', spellcheck: 'false',
      placeholder: '2001:db8::/64 or 10.0.0.7', 'data-search': true });
    const form = el('form', { class: 'tools', on: { submit: event => {
      event.preventDefault();
      location.hash = `#/explain/${input.value.trim()}`;
    } } }, el('label', { for: 'explain-prefix' }, 'Prefix or address'), input, el('button', {}, 'Explain'));
    answer = el('div', { class: 'answer' });
    root = el('section', { 'aria-label': 'Explain' }, el('h2', { class: 'unseen' }, 'Explain'), form, answer);
  };

  return {
    name: 'explain',
    title: 'Explain',
    open: path => {
      if (!root) build();
      prefix = path;
      if (document.activeElement !== input) input.value = prefix;
      return root;
    },
    refresh: async () => {
      if (!prefix) return;
      const said = await Agent.ask('explain', { prefix });
      fill(answer, el('pre', {}, JSON.stringify(said, null, 2)));
    },
  };
})();
