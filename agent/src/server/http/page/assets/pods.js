'use strict';
// The pods of the node: their addresses, and whether their anycast addresses are announced.

const Pods = (() => {
const { el, none, text, mono, link, state, tag, row, lines, pairs } = Draw;

const columns = [
  ['Pod'],
  ['Ready'],
  ['IPv6'],
  ['IPv4'],
  ['Anycast'],
  ['Interface', '', 'the host’s end of its link, and the pod’s'],
  ['Container'],
];

const host = address => `${address}/${address.includes(':') ? 128 : 32}`;
const explain = address => link(`#/explain/${host(address)}`, address, 'mono');

/// How an anycast address of a pod stands, and what that means.
const standing = (pod, address) => {
  const isAnnounced = pod.announced.includes(address);
  if (isAnnounced && pod.ready) return ['announced', 'good'];
  if (isAnnounced) return ['announced for another pod', 'plain'];
  return pod.ready ? ['held back', 'warn'] : ['not announced', 'warn'];
};

const anycast = pod => pairs(pod.anycast.map(address =>
  [explain(address), state(...standing(pod, address))]));

/// Its own of a family first, then what its annotation asked for.
const addresses = (own, pod, isFamily) =>
  lines([...new Set([own, ...pod.addresses.filter(isFamily)])].filter(Boolean).map(explain));

const line = pod => {
  const ready = pod.ready ? state('Ready', 'good') : state('not Ready', 'warn');
  return {
    key: `${pod.containerId} ${pod.ifname}`,
    tone: pod.ready ? '' : 'warn',
    cells: [
      row([text(pod.namespace ? `${pod.namespace}/` : '', 'past'), text(pod.name || pod.containerId.slice(0, 12))]
        .filter(one => one !== none), ''),
      pod.state === 'committed' ? ready : row([ready, tag(pod.state, 'warn')]),
      addresses(pod.ip6, pod, one => one.includes(':')),
      addresses(pod.ip4, pod, one => !one.includes(':')),
      anycast(pod),
      row([mono(pod.hostInterface), text(pod.ifname, 'mono past')]),
      text(pod.containerId.slice(0, 12), 'mono past'),
    ],
  };
};

const matches = (pod, wanted) => {
  const words = [pod.namespace, `${pod.namespace}/${pod.name}`, pod.containerId, pod.ip6, pod.ip4,
    pod.hostInterface, ...pod.anycast, ...pod.addresses, pod.ready ? 'ready' : 'not ready'];
  return wanted.toLowerCase().split(/\s+/).every(part =>
    words.some(word => word && word.toLowerCase().includes(part)));
};

let root = null;
let table = null;
let search = null;
let empty = null;
let tally = null;
let pods = null;

const build = () => {
  table = new Table.Table('Pods of this node', columns);
  const find = Draw.search('pods-find', 'Filter', 'name, address, interface', { input: draw });
  search = find[1];
  empty = el('p', { class: 'empty' });
  tally = el('p', { class: 'tally', role: 'status' });
  root = Draw.view('Pods', el('div', { class: 'tools' }, find, tally), empty, table.root);
};

const draw = () => {
  if (!pods) return;
  const wanted = search.value.trim();
  const found = pods.filter(pod => !wanted || matches(pod, wanted));
  const ready = found.filter(pod => pod.ready).length;
  tally.textContent = `${found.length} of ${pods.length} pods, ${ready} Ready`;
  empty.textContent = pods.length === 0 ? 'No pods on this node.' : 'No pod matches.';
  empty.hidden = found.length > 0;
  table.root.hidden = found.length === 0;
  table.update(found.map(line));
};

return {
  title: 'Pods',
  open: () => {
    if (!root) build();
    return root;
  },
  refresh: async () => {
    pods = (await Agent.ask('pods'))?.pods || pods;
    draw();
  },
};
})();
