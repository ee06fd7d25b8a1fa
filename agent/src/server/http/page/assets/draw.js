'use strict';
// How things look: elements, text from strangers, lengths of time, and the small pieces that cells are
// made of. Whatever comes from the agent goes into text nodes, never into markup.

const Draw = (() => {
// Control characters are shown by their pictures, and those that turn text around not at all.
const plain = value => String(value)
  .replace(/[\u0000-\u001f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/\u007f/g, '\u2421')
  .replace(/[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');

/// An element with attributes, listeners (`on`) and children.
const el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      Object.entries(value).forEach(([event, act]) => made.addEventListener(event, act));
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : value);
    }
  }
  put(made, children);
  return made;
};

const put = (parent, children) => {
  for (const child of children.flat(2)) {
    if (child === null || child === undefined) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
};

/// Puts these in the place of all that was there.
const fill = (parent, ...children) => {
  parent.replaceChildren();
  put(parent, children);
};

/// A view under its name.
const view = (title, ...children) => el('section', { 'aria-label': title }, el('h2', { class: 'unseen' }, title), children);

/// A place to write what is looked for, with its label.
const search = (id, title, placeholder, on = {}) => [el('label', { for: id }, title), el('input', { id, type: 'search',
  placeholder, on, autocomplete: 'off', spellcheck: 'false' })];

const two = number => String(number).padStart(2, '0');

// As the command line writes them: 02:17:33 and 3d4h in a column, 45s, 12m, 3h, 2d in a sentence.
const span = seconds => {
  const hours = Math.floor(seconds / 3600);
  if (seconds >= 86400) return `${Math.floor(seconds / 86400)}d${hours % 24}h`;
  return `${two(hours)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
};
const rough = seconds => {
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
};
const wording = {
  span: (at, now) => span(Math.max(0, Math.floor((now - at) / 1000))),
  ago: (at, now) => `${rough(Math.max(0, Math.floor((now - at) / 1000)))} ago`,
  ahead: (at, now) => `next attempt in ${rough(Math.max(0, Math.ceil((at - now) / 1000)))}`,
};
const count = number => number.toLocaleString('en').replace(/,/g, '\u202f');

/// A piece of a cell: `sign` tells whether it is the same as before, `make` makes its nodes, `times` are
/// the moments in it, which may move without a change to mark.
const piece = (sign, make, times = []) => ({ sign, make, times });

const none = piece('', () => el('span', { class: 'none' }, '–'));

const text = (value, look) => {
  if (value === null || value === undefined || value === '' || value === false) return none;
  return piece(`${look || ''}|${value}`, () => look ? el('span', { class: look }, value) : plain(value));
};
const number = value => text(count(value));
const mono = value => text(value, 'mono');

/// Answers come a little late or early, and a moment is told as so many seconds ago: one that moved by
/// less than this is the same as before.
const DRIFT = 2500;
const moments = new Map();
const steady = (key, at) => {
  const before = moments.get(key);
  if (before !== undefined && Math.abs(before - at) < DRIFT) return before;
  moments.set(key, at);
  return at;
};

/// A length of time that goes on by itself; `kind` is one of `wording`.
const time = (at, kind, look) => piece(`time ${kind}`, () => moment(at, kind, look), [at]);

const moment = (at, kind, look) => {
  const made = el('span', { 'data-at': at, 'data-kind': kind, class: look || 'time' });
  made.textContent = wording[kind](at, Date.now());
  return made;
};

const link = (href, words, look) => piece(`${href}|${look}|${words}`,
  () => el('a', { href, class: look }, words));

const tag = (words, tone) => piece(`${tone}|${words}`, () => el('span', { class: `tag ${tone}` }, words));

/// A state: its colour, the shape of its dot and its name say the same.
const state = (words, tone) => piece(`${tone}|${words}`, () => el('span', { class: `state ${tone}` }, words));

const join = (pieces, make) => pieces.length === 0 ? none
  : piece(pieces.map(one => one.sign).join('\u0000'), make, pieces.flatMap(one => one.times));

/// Several in a row; `between` is put between them.
const row = (pieces, between = ' ') =>
  join(pieces, () => pieces.flatMap((one, at) => at ? [between, one.make()].flat() : one.make()));

/// Several below each other.
const lines = pieces => join(pieces, () => pieces.map(one => el('div', {}, one.make())));

/// Lines of two pieces each, aligned.
const pairs = all => join(all.flat(),
  () => el('div', { class: 'pairs' }, all.flat().map(one => el('span', {}, one.make()))));

const family = name => ({ 'ipv6-unicast': 'IPv6', 'ipv4-unicast': 'IPv4' })[name] || name;

/// Lets time pass; not while the agent is away, because nobody knows how it is then.
const tick = () => {
  const now = Date.now();
  for (const shown of document.querySelectorAll('[data-at]')) {
    const words = wording[shown.dataset.kind](Number(shown.dataset.at), now);
    if (shown.textContent !== words) shown.textContent = words;
  }
};

return { plain, el, fill, view, search, count, steady, piece, none, text, number, mono, time, link, tag, state, row,
  lines, pairs, family, tick };
})();
