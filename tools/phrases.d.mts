/** A phrase in prose: its line counted from 1, the words found, and what to write instead. */
export interface FoundPhrase {
  line: number;
  phrase: string;
  advice: string;
}

export const PHRASES: readonly (readonly [pattern: RegExp, advice: string])[];
export function findPhrases(path: string, text: string): FoundPhrase[];
export function countClauses(path: string, text: string): { words: number; clauses: number };
