import type { Approval, ApprovalRule, ShownEffect } from './approval.js';
import type { ErrorCode } from './errors/catalogue.js';
import type { JsonObject } from '@toolfleet/base/json';
import type { EpochMs } from './units.js';

/** Tool and arguments of a question of a program, to recognise a second run that takes another path. */
export interface QuestionPath {
  /** SHA-256 of both as JSON. */
  digest: string;
  /** Its beginning, for the details of an error. */
  shown: string;
}

/** A call of a program that waits for people. */
export interface WaitingCall extends ShownEffect {
  /** Number of the call in its program; absent for an effect of a plan. */
  n?: number;
  path?: QuestionPath;
  /** Place of the effect in the plan of its program. */
  at?: number;
  questions: readonly string[];
  rule?: ApprovalRule | undefined;
  revision: string;
  fingerprint?: string | undefined;
}

/** An answer that a program got, and gets again when it runs again. */
export interface KeptAnswer {
  n: number;
  path: QuestionPath;
  answer: JsonObject;
  /** As the result of the program lists the call; absent for other questions. */
  made?: JsonObject | undefined;
}

/** A call that does not run, because people were not asked or declined it. */
export interface RefusedCall {
  n: number;
  path: QuestionPath;
  tool: string;
  code: ErrorCode;
  message: string;
  details?: JsonObject | undefined;
}

/** An effect in the plan of a program. */
export interface PlannedEffect extends ShownEffect {
  revision: string;
  fingerprint: string;
  /** Questions that people have to approve first; empty: none. */
  questions: readonly string[];
  rule?: ApprovalRule | undefined;
}

/** The plan that a program keeps to. */
export interface ProgramPlan {
  digest: string;
  effects: readonly PlannedEffect[];
  /** Places of the effects that were reached, by the number of their call. */
  reached: readonly (readonly [n: number, at: number])[];
  /** Approved effects, by place. */
  given: readonly (readonly [at: number, Approval])[];
}

/** State of a program that waits for people; nothing of it stays in a process. JSON. */
export interface ProgramState {
  /** When its first run began; its own clock starts here. */
  startedAt: EpochMs;
  /** The approval that it waits for, or that was decided last. */
  approval: string;
  kept: readonly KeptAnswer[];
  /** Approvals, by number of the call. */
  given: readonly (readonly [n: number, Approval])[];
  waits: readonly WaitingCall[];
  /** Refusals since the program began to wait. */
  refused: readonly RefusedCall[];
  plan?: ProgramPlan | undefined;
}
