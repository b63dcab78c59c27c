import type { Json, JsonObject } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool, type JobBounds } from '@toolfleet/resilience/child-pool';
import { TENANT, type ToolRun } from '../tool-run.js';
import type { FoundLines, LineSearch } from '../files/file-matching.js';
import type { TextOperation } from '../text/text-operations.js';
import type { ExtractedPage, ExtractType } from '../web/extract-page.js';
import type { ExtractedPdf } from '../web/extract-pdf.js';

/** A job of a child. Documents are JSON text. */
export type BoundedJob =
  | { kind: 'jsonpath' | 'jmespath'; document: string; query: string }
  | { kind: 'patch'; document: string; patch: string }
  | { kind: 'merge'; document: string; patch: string }
  | { kind: 'diff'; document: string; other: string }
  | { kind: 'validate'; document: string; schema: string }
  | { kind: 'regex_find'; text: string; pattern: string; flags: string; limit: number }
  | { kind: 'regex_replace'; text: string; pattern: string; flags: string; replacement: string; limit: number }
  | { kind: 'regex_split'; text: string; pattern: string; flags: string; limit: number }
  | { kind: 'page'; html: string; url: string; what: ExtractType }
  | { kind: 'pdf'; bytes: string }
  | { kind: 'similarity'; text: string; other: string }
  | { kind: 'text'; work: TextOperation }
  | { kind: 'search_lines'; search: LineSearch }
  | { kind: 'robots'; rules: string; address: string; robot: string; url: string };

/** A match of `regex_find`; `index` is an offset in UTF-16 units. */
export type RegexMatch = {
  match: string;
  index: number;
  groups: (string | null)[];
  named?: Record<string, string | null>;
};

/** The answers to jobs, by their kind. */
interface BoundedAnswers {
  jsonpath: Json;
  jmespath: Json;
  patch: Json;
  merge: Json;
  diff: JsonObject[];
  validate: JsonObject[];
  regex_find: { matches: RegexMatch[]; more: boolean };
  regex_replace: { text: string; replaced: number };
  regex_split: string[];
  page: ExtractedPage;
  pdf: ExtractedPdf;
  similarity: { distance: number; ratio: number; word_overlap: number };
  text: JsonObject;
  search_lines: FoundLines;
  robots: boolean;
}

/** The limits of a job that come from the call. Part of the plugin API. */
export function boundsOf(run: Pick<ToolRun, 'signal' | typeof TENANT>): Omit<JobBounds, 'timeoutMs'> {
  return { signal: run.signal, tenant: run[TENANT] };
}

/** Heap of a child. A result has at most 4 MiB; the rest is for intermediate values. */
const HEAP_MB = 320;
/** Maximum number of waiting jobs of a tenant: each occupies one of the 256 concurrent calls of its process. */
const MAX_WAITING = 128;

/** Runs the jobs of builtin tools with costs that a caller determines, in child processes. */
export class BoundedWork extends ChildPool<BoundedJob, BoundedAnswers> {
  /** @param size most concurrent children */
  constructor(clock: Clock, size = 2, maxWaiting = MAX_WAITING) {
    super(clock, { program: childProgram(import.meta.url, 'bounded-child'), size, maxWaiting, heapMb: HEAP_MB });
  }
}
