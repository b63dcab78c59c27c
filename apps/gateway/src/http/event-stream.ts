/** One server-sent event. */
export interface ServerEvent {
  id: string;
  type: string;
  data: unknown;
}

/** The text of an event. */
export function eventFrame({ id, type, data }: ServerEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
