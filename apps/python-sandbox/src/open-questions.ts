import type { JsonObject } from '@toolfleet/contracts';

/**
 * The questions of one program without an answer. A program waits for people when it is blocked and all of them do: whatever they decide,
 * nothing else of it can run before.
 */
export class OpenQuestions {
  /** By number; with the question once its call waits for people. */
  readonly #open = new Map<number, JsonObject | undefined>();
  #answered = 0;
  /** Answers that the program had got when it was blocked last. */
  #blockedAt = -1;

  /** @param onWaits called once, with the questions of the calls that wait */
  constructor(private readonly onWaits: (questions: JsonObject[]) => void) {}

  /** The program begins again. */
  reset(): void {
    this.#open.clear();
    this.#answered = 0;
    this.#blockedAt = -1;
  }

  asked(n: number): void {
    this.#open.set(n, undefined);
  }

  answered(n: number): void {
    this.#open.delete(n);
    this.#answered += 1;
  }

  /** The call of a question waits for people. */
  waits(n: number, question: JsonObject): void {
    this.#open.set(n, question);
    this.#check();
  }

  /** The program is blocked, after this many answers. */
  blocked(answered: number): void {
    this.#blockedAt = answered;
    this.#check();
  }

  #check(): void {
    const questions = [...this.#open.values()];
    const isStuck = questions.length > 0 && questions.every((question) => question !== undefined);
    if (isStuck && this.#blockedAt === this.#answered) this.onWaits(questions as JsonObject[]);
  }
}
