/** One node on the way of the search. */
interface Frame {
  node: string;
  targets: string[];
  next: number;
}

/** Nodes that reach each other. `isRing`: more than one of them, or one that reaches itself. */
export interface Component {
  members: string[];
  isRing: boolean;
}

/**
 * Strongly connected components, those that others lead to first (Tarjan 1972, without recursion: chains in hostile
 * documents are longer than the call stack). Nodes in `judged` are known and skipped; all nodes met are added to it.
 */
export function strongComponents(
  starts: Iterable<string>,
  targetsOf: (node: string) => string[],
  judged: Set<string>,
): Component[] {
  const components: Component[] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const component: string[] = [];
  const onComponent = new Set<string>();
  const stack: Frame[] = [];

  const enter = (node: string): void => {
    judged.add(node);
    index.set(node, index.size);
    low.set(node, index.size - 1);
    component.push(node);
    onComponent.add(node);
    stack.push({ node, targets: targetsOf(node), next: 0 });
  };
  const lower = (node: string, value: number | undefined): void => {
    if (value !== undefined && value < (low.get(node) ?? 0)) low.set(node, value);
  };
  const leave = (frame: Frame): void => {
    stack.pop();
    const parent = stack.at(-1);
    if (parent) lower(parent.node, low.get(frame.node));
    if (low.get(frame.node) !== index.get(frame.node)) return;
    const members: string[] = [];
    for (let member = component.pop(); member !== undefined; member = component.pop()) {
      onComponent.delete(member);
      members.push(member);
      if (member === frame.node) break;
    }
    const isRing = members.length > 1 || frame.targets.includes(frame.node);
    components.push({ members: members.toReversed(), isRing });
  };

  for (const start of starts) {
    if (judged.has(start)) continue;
    enter(start);
    for (let frame = stack.at(-1); frame; frame = stack.at(-1)) {
      const target = frame.targets[frame.next++];
      if (target === undefined) leave(frame);
      else if (!judged.has(target)) enter(target);
      else if (onComponent.has(target)) lower(frame.node, index.get(target));
    }
  }
  return components;
}
