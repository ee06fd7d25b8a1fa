'use strict';
// What the doctor finds, when asked: it looks at every pod's namespace, which is not for every moment.

const Check = (() => {
  const { el, text, state } = Draw;
  const words = { ok: ['ok', 'good'], warn: ['warning', 'warn'], fail: ['FAIL', 'bad'] };
  const rank = { fail: 0, warn: 1, ok: 2 };

  let root = null;
  let table = null;
  let said = null;
  let button = null;

  const build = () => {
    table = new Table.Table('What the doctor found', [
      { title: 'Looked at' }, { title: 'How it is' },
      { title: 'Found', kind: 'words' }, { title: 'What to do', kind: 'words' },
    ], { quiet: true });
    said = el('p', { class: 'tally', role: 'status' });
    button = el('button', { type: 'button', on: { click: look } }, 'Look again');
    root = el('section', { 'aria-label': 'Check' }, el('h2', { class: 'unseen' }, 'Check'),
      el('div', { class: 'tools' }, button, said), table.root);
  };

  const look = async () => {
    button.disabled = true;
    said.textContent = 'Looking: kernel, sysctls, state, sessions, pods…';
    try {
      const { findings } = await Agent.ask('check');
      const count = status => findings.filter(one => one.status === status).length;
      said.textContent = `${count('ok')} well, ${count('warn')} warnings, ${count('fail')} failed, `
        + `at ${new Date().toTimeString().slice(0, 8)}`;
      const sorted = findings.map((one, at) => ({ one, at }))
        .sort((a, b) => rank[a.one.status] - rank[b.one.status] || a.at - b.at);
      table.update(sorted.map(({ one, at }) => ({
        key: `${at} ${one.check} ${one.message}`,
        tone: one.status === 'ok' ? '' : words[one.status][1],
        cells: [text(one.check), state(...words[one.status]), text(one.message), text(one.remedy)],
      })));
      table.root.hidden = false;
    } catch (error) {
      said.textContent = error instanceof Agent.Refusal ? Draw.plain(error.message) : 'No answer.';
    }
    button.disabled = false;
  };

  return {
    name: 'check',
    title: 'Check',
    open: () => {
      if (!root) build();
      look();
      return root;
    },
    refresh: () => {},
  };
})();
