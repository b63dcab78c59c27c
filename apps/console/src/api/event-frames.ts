/** One server-sent event. */
export interface EventFrame {
  id: string | undefined;
  type: string;
  data: string;
}

/** Reads server-sent events from chunks of text; frames may be cut anywhere. Comments are passed over. */
export class EventFrames {
  #rest = '';

  /** Events that are complete with this chunk. */
  push(chunk: string): EventFrame[] {
    this.#rest = (this.#rest + chunk).replaceAll('\r\n', '\n');
    const parts = this.#rest.split('\n\n');
    this.#rest = parts.pop() ?? '';
    return parts.flatMap((part) => {
      const frame = frameOf(part);
      return frame ? [frame] : [];
    });
  }
}

function frameOf(text: string): EventFrame | undefined {
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
