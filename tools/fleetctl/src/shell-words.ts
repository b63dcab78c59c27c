/** Words of a shell's command line, made of text from elsewhere: tools and schemas name what a person then types or pastes. */

/**
 * Letters, digits and marks that mean nothing to bash, zsh and fish anywhere in a word. `~`, `=` and `%` do at its start
 * (home folders, zsh's `=command`, jobs), a dash would make a value an option.
 */
const PLAIN = /^[\p{L}\p{N}_@+:,./][\p{L}\p{N}_@%+:,./-]*$/u;
const LONGEST = 200;

/** True for a word that every shell takes as it stands. */
export function isPlainWord(text: string): boolean {
  return text.length <= LONGEST && PLAIN.test(text);
}

/** A word for a line that a person may paste into a shell: quoted unless it is plain. */
export function shellWord(text: string): string {
  return isPlainWord(text.replace(/^--?/, '')) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
