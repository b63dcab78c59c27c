/** A phrase in prose: its line counted from 1, the words found, and what to write instead. */
export interface FoundPhrase {
  line: number;
  phrase: string;
  advice: string;
}

export const PHRASES: readonly (readonly [pattern: RegExp, advice: string])[];
export function findPhrases(path: string, text: string): FoundPhrase[];
export type Habit = 'clauses' | 'superlatives' | 'their own';
export const HABITS: Readonly<Record<Habit, { patterns: readonly RegExp[]; limit: number }>>;
export function countHabits(path: string, text: string): Record<Habit | 'words', number>;
