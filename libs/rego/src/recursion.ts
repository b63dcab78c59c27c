import { RegoError } from './rego-error.js';
import type { Node } from './rule-tree.js';

/**
 * Checks that no rule depends on itself, directly or through other rules.
 * @throws RegoError `recursion`, with the cycle
 */
export function checkRecursion(nodes: readonly Node[], uses: ReadonlyMap<Node, ReadonlySet<Node>>): void {
  const state = new Map<Node, 'open' | 'done'>();
  const trail: Node[] = [];
  const visit = (node: Node): void => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      const cycle = [...trail.slice(trail.indexOf(node)), node].map(({ path }) => path.join('.'));
      const [place] = [...node.rules, ...node.dynamic].map(({ rule }) => rule.place);
      throw new RegoError('recursion', `recursive rules: ${cycle.join(' -> ')}`, place);
    }
    state.set(node, 'open');
    trail.push(node);
    for (const used of uses.get(node) ?? []) visit(used);
    // The value of a package, and of dynamic rules, consists of the values of its children.
    if (node.rules.length === 0) for (const child of node.children.values()) if (!child.isFunction) visit(child);
    trail.pop();
    state.set(node, 'done');
  };
  nodes.forEach(visit);
}
