import { RegoError } from './rego-error.js';
import type { Node } from './rule-tree.js';

/** Rules must not ask themselves, also not through others. @throws RegoError recursion with the circle */
export function checkRecursion(nodes: readonly Node[], uses: ReadonlyMap<Node, ReadonlySet<Node>>): void {
  const state = new Map<Node, 'open' | 'done'>();
  const trail: Node[] = [];
  const visit = (node: Node): void => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      const circle = [...trail.slice(trail.indexOf(node)), node].map(({ path }) => path.join('.'));
      const [place] = [...node.rules, ...node.dynamic].map(({ rule }) => rule.place);
      throw new RegoError('recursion', `rules ask themselves: ${circle.join(' -> ')}`, place);
    }
    state.set(node, 'open');
    trail.push(node);
    for (const used of uses.get(node) ?? []) visit(used);
    // the value of a package, and of dynamic rules, is made of what lies below
    if (node.rules.length === 0) for (const child of node.children.values()) if (!child.isFunction) visit(child);
    trail.pop();
    state.set(node, 'done');
  };
  nodes.forEach(visit);
}
