'use strict';
// What the doctor finds, when asked: it looks into every pod's namespace, which is not for every moment.

const Check = (() => {
const { el, text, state } = Draw;
const words = { fail: ['FAIL', 'bad'], warn: ['warning', 'warn'], ok: ['ok', 'good'] };
const rank = Object.keys(words);

let root = null;
let table = null;
let said = null;
let button = null;

const build = () => {
  table = new Table.Table('What the doctor found', [['Looked at'], ['How it is'], ['Found', 'words'], ['What to do', 'words']]);
  said = el('p', { class: 'tally', role: 'status' });
  button = el('button', { type: 'button', on: { click: look } }, 'Look again');
  root = Draw.view('Check', el('div', { class: 'tools' }, button, said), table.root);
};

const look = async () => {
  button.disabled = true;
  said.textContent = 'Looking: kernel, sysctls, state, sessions, pods…';
  try {
    const findings = (await Agent.ask('check'))?.findings;
    said.textContent = findings ? tally(findings) : 'No answer.';
    if (findings) table.update(findings.map(line).sort((a, b) => a.rank - b.rank));
  } catch (error) {
    if (!(error instanceof Agent.Refusal)) throw error;
    said.textContent = Draw.plain(error.message);
  }
  button.disabled = false;
};

const tally = findings => {
  const count = status => findings.filter(one => one.status === status).length;
  return `${count('ok')} well, ${count('warn')} to look at, ${count('fail')} failed, at ${new Date().toTimeString().slice(0, 8)}`;
};

const line = (one, at) => ({
  key: `${at} ${one.check} ${one.message}`,
  rank: rank.indexOf(one.status),
  tone: words[one.status][1],
  cells: [text(one.check), state(...words[one.status]), text(one.message), text(one.remedy)],
});

return {
  title: 'Check',
  open: () => {
    if (!root) build();
    look();
    return root;
  },
  refresh: () => {},
};
})();
