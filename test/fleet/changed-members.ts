/** Answers with one member changed, as servers of other authors send them. */

type Value = null | boolean | number | string | Value[] | { [name: string]: Value };

/** A changed answer. */
export interface ChangedAnswer {
  /** Such as `null result.content.0.annotations`. */
  what: string;
  /** The names and indexes that lead to the member. */
  path: readonly string[];
  answer: Value;
}

const retyped = (value: Value): Value => (typeof value === 'string' ? 7 : typeof value === 'number' ? {} : 'x');
/** A member that no specification has. */
const ADDED = 'x-added';

/** All answers with one member that is null, missing, of another type, or new. */
export function changedMembers(recorded: object): ChangedAnswer[] {
  const answer = structuredClone(recorded) as Value;
  const changed: ChangedAnswer[] = [];
  const change = (
    what: string,
    path: readonly string[],
    edit: (owner: { [name: string]: Value }, name: string) => void,
  ) => {
    const copy = structuredClone(answer);
    const owner = path.slice(0, -1).reduce<Value>((value, name) => (value as { [name: string]: Value })[name]!, copy);
    edit(owner as { [name: string]: Value }, path.at(-1)!);
    changed.push({ what: `${what} ${path.join('.')}`, path, answer: copy });
  };
  const visit = (value: Value, path: readonly string[]): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, member] of Object.entries(value)) {
      const at = [...path, name];
      change('null', at, (owner) => void (owner[name] = null));
      change('retype', at, (owner) => void (owner[name] = retyped(member)));
      if (!Array.isArray(value)) change('drop', at, (owner) => delete owner[name]);
      visit(member, at);
    }
    if (!Array.isArray(value)) change('add', [...path, ADDED], (owner) => void (owner[ADDED] = null));
  };
  visit(answer, []);
  return changed;
}

/** Whether a change may take a member away, because it is the member itself or contains it. */
export const concerns = ({ path }: ChangedAnswer, member: string): boolean =>
  `${member}.`.startsWith(`${path.join('.')}.`);
