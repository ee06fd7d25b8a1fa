'use strict';
// Tables and lists of facts that follow what they are told, row by row and cell by cell: what is the
// same is not touched, so that focus, selection and scrolling stay where they are, and what differs
// is marked for a moment.

const Table = (() => {
const { el, fill, plain } = Draw;
const MARKED = 1600;

const mark = (element, how) => {
  element.classList.remove(how);
  void element.offsetWidth; // so that the animation begins anew
  element.classList.add(how);
  setTimeout(() => element.classList.remove(how), MARKED);
};

const settle = (place, cell) => {
  const moments = place.querySelectorAll('[data-at]');
  cell.times.forEach((at, index) => {
    if (moments[index]) moments[index].dataset.at = at;
  });
};

/// Makes a place show a piece. True when it showed another before.
const show = (place, cell) => {
  if (place.sign === cell.sign) {
    settle(place, cell);
    return false;
  }
  const isNew = place.sign === undefined;
  const hadFocus = place.contains(document.activeElement);
  fill(place, cell.make());
  place.sign = cell.sign;
  if (hadFocus) place.querySelector('a, button')?.focus();
  return !isNew;
};

/// A list of labels and pieces.
class Facts {
  constructor() {
    this.root = el('dl', { class: 'facts' });
    this.places = new Map();
  }

  update(pairs) {
    const wanted = new Set(pairs.map(([label]) => label));
    for (const [label, place] of this.places) {
      if (wanted.has(label)) continue;
      place.parentElement.remove();
      this.places.delete(label);
    }
    pairs.forEach(([label, cell], index) => {
      let place = this.places.get(label);
      if (!place) {
        place = el('dd');
        const pair = el('div', {}, el('dt', {}, label), place);
        this.root.insertBefore(pair, this.root.children[index] || null);
        this.places.set(label, place);
      }
      if (show(place, cell)) mark(place, 'changed');
    });
  }
}

/// `columns` are `[title, kind, hint]`; a row is `{ key, cells, tone, open, detail }`.
class Table {
  constructor(caption, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.isFirst = true;
    this.body = el('tbody');
    const heads = columns.map(([title, kind, hint]) => el('th', { scope: 'col', class: kind, title: hint }, title));
    this.table = el('table', { class: 'grid' }, el('caption', { class: 'unseen' }, caption),
      el('thead', {}, el('tr', {}, heads)), this.body);
    this.root = el('div', { class: 'box', role: 'region', 'aria-label': caption }, this.table);
    this.table.addEventListener('keydown', event => walk(event, this.body));
    // Whoever has no mouse can scroll a box that has more than it shows.
    new ResizeObserver(() => {
      if (this.root.scrollWidth > this.root.clientWidth) this.root.tabIndex = 0;
      else this.root.removeAttribute('tabindex');
    }).observe(this.table);
  }

  /// Shows exactly these rows, in this order.
  update(rows) {
    const wanted = new Set(rows.map(row => row.key));
    for (const [key, known] of this.rows) {
      if (wanted.has(key)) continue;
      known.line.remove();
      known.detail?.remove();
      this.rows.delete(key);
    }
    let next = this.body.firstElementChild;
    const place = line => {
      if (line === next) next = next.nextElementSibling;
      else this.body.insertBefore(line, next);
    };
    for (const row of rows) {
      const known = this.rows.get(row.key) || this.add(row);
      this.patch(known, row);
      place(known.line);
      if (known.detail) place(known.detail);
    }
    this.isFirst = false;
  }

  add(row) {
    const cells = this.columns.map(([, kind], at) => el(at ? 'td' : 'th', { scope: at ? null : 'row', class: kind }));
    const known = { line: el('tr', {}, cells), cells, detail: null };
    this.rows.set(row.key, known);
    if (!this.isFirst) mark(known.line, 'arrived');
    return known;
  }

  patch(known, row) {
    known.line.dataset.key = plain(row.key);
    for (const tone of ['warn', 'bad']) known.line.classList.toggle(`row-${tone}`, row.tone === tone);
    row.cells.forEach((cell, index) => {
      if (show(known.cells[index], cell) && !this.isQuiet) mark(known.cells[index], 'changed');
    });
    if (!row.open) {
      known.detail?.remove();
      known.detail = null;
      return;
    }
    if (!known.detail) {
      const held = el('td', { colspan: this.columns.length });
      known.detail = el('tr', { class: 'detail', id: row.open }, held);
      known.inside = row.detail();
      held.append(known.inside.root);
    }
    known.inside.update(row.subject);
  }
}

/// Up and down walk from row to row by what can be opened in each.
const walk = (event, body) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
  const doors = [...body.querySelectorAll('tr > :first-child > a, tr > :first-child > button, .door')];
  const at = doors.indexOf(document.activeElement);
  const next = doors[at + step];
  if (at < 0 || !next) return;
  event.preventDefault();
  next.focus();
};

return { Table, Facts, show };
})();
