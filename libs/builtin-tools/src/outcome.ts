import type { ContentBlock, Json, JsonObject, ToolError, Usage } from '@toolfleet/contracts';

/** What a handler returns when it succeeded, or when it was stopped and has something to show or to charge for. */
export interface ToolOutcome {
  output: Json;
  /** Summary for the model; cut at 6,000 characters on the way. */
  text: string;
  metadata?: JsonObject;
  usage?: Usage;
  content?: ContentBlock[];
  /** Why it ended early; a handler that has nothing else to say throws it. */
  failure?: ToolError;
}

/** Longest `text` a model gets. */
export const MAX_TEXT_CHARACTERS = 6_000;

/** Success: `output` for programs, `text` for the model. */
export function ok(
  output: Json,
  text: string,
  extra: Pick<ToolOutcome, 'metadata' | 'usage' | 'content' | 'failure'> = {},
): ToolOutcome {
  return { output, text: cutText(text), ...extra };
}

/** Cuts a text at the cap, saying how much is missing; never inside a surrogate pair. */
export function cutText(text: string, limit = MAX_TEXT_CHARACTERS): string {
  if (text.length <= limit) return text;
  const note = `\n… (${text.length - limit} more characters)`;
  let end = Math.max(0, limit - note.length);
  const code = text.charCodeAt(end - 1);
  if (code >= 0xd800 && code <= 0xdbff) end -= 1;
  return text.slice(0, end) + note;
}
