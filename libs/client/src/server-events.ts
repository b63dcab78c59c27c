/** One server-sent event. */
export interface ServerEvent {
  id: string | undefined;
  type: string;
  data: string;
}

/** Parses server-sent events from chunks of text that may be split anywhere. Comments are ignored. */
export class EventParser {
  #rest = '';

  /** Adds a chunk. @returns the events that it completes */
  push(chunk: string): ServerEvent[] {
    this.#rest = (this.#rest + chunk).replaceAll('\r\n', '\n');
    const parts = this.#rest.split('\n\n');
    this.#rest = parts.pop() ?? '';
    return parts.flatMap((part) => parseEvent(part) ?? []);
  }
}

function parseEvent(text: string): ServerEvent | undefined {
  let id: string | undefined;
  let type = 'message';
  const data: string[] = [];
  for (const line of text.split('\n')) {
    const [, field, value = ''] = /^(\w+):? ?(.*)$/.exec(line) ?? [];
    if (field === 'id') id = value;
    else if (field === 'event') type = value;
    else if (field === 'data') data.push(value);
  }
  return data.length === 0 ? undefined : { id, type, data: data.join('\n') };
}

/** Events of a response body. Leaving the loop closes the connection. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
