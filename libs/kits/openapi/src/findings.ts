import { CodedError, type JsonObject } from '@toolfleet/base';

/** Something repaired or ignored in a document, with the place it stands at (RFC 6901 pointer from the root). */
export interface SpecWarning {
  pointer: string;
  message: string;
}

/** An operation or path that does not become a tool. `code` is a `SpecReason`. */
export interface SpecRefusal extends SpecWarning {
  code: SpecReason;
}

/** Why a document or an operation is refused; travels as `details.reason` of SPEC_INVALID. */
type SpecReason =
  | 'SPEC_VERSION_UNSUPPORTED'
  | 'SPEC_PARSE_ERROR'
  | 'SPEC_TOO_LARGE'
  | 'SPEC_TOO_COMPLEX'
  | 'SPEC_FETCH_REFUSED'
  | 'REMOTE_REF_UNSUPPORTED'
  | 'REF_CYCLE'
  | 'NO_OPERATION_SELECTED'
  | 'SERVER_URL_MISSING'
  | 'SERVER_VARIABLE_INVALID';

/** A document as a whole is refused: SPEC_INVALID (422) with the reason and the place. */
export function specError(reason: SpecReason, message: string, place: JsonObject = {}): CodedError {
  return new CodedError('SPEC_INVALID', {
    message: `${reason}: ${message}`,
    details: { reason, ...place },
    facts: reason === 'SPEC_PARSE_ERROR' ? { reason: 'unparsable' } : undefined,
  });
}

/** More warnings than a person reads; the rest is counted only, so that a hostile document cannot fill memory. */
const MAX_WARNINGS = 1_000;

/** Collects warnings once each, in order, at most 1,000 of them. */
export class Findings {
  private readonly seen = new Set<string>();
  private readonly kept: SpecWarning[] = [];
  private dropped = 0;

  warn(pointer: string, message: string): void {
    const key = `${pointer}\n${message}`;
    if (this.seen.has(key)) return;
    if (this.kept.length >= MAX_WARNINGS) {
      this.dropped += 1;
      return;
    }
    this.seen.add(key);
    this.kept.push({ pointer, message });
  }

  /** The warnings so far; the last one says how many more there were. */
  list(): SpecWarning[] {
    if (this.dropped === 0) return [...this.kept];
    return [...this.kept, { pointer: '', message: `${this.dropped} further warnings are not shown` }];
  }
}
