import { randomUUID } from 'node:crypto';
import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server';

interface Stored {
  id: string;
  streamId: string;
  message: JSONRPCMessage;
}

const MAX_EVENTS = 1_000;

/** Events of one 2025 session for resumption by `Last-Event-ID`; the oldest go first. */
export class MemoryEvents implements EventStore {
  private readonly events: Stored[] = [];

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = randomUUID();
    this.events.push({ id, streamId, message });
    if (this.events.length > MAX_EVENTS) this.events.shift();
    return id;
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.events.find(({ id }) => id === eventId)?.streamId;
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const at = this.events.findIndex(({ id }) => id === lastEventId);
    const streamId = this.events[at]?.streamId ?? '';
    for (const event of at < 0 ? [] : this.events.slice(at + 1)) {
      if (event.streamId === streamId) await send(event.id, event.message);
    }
    return streamId;
  }
}
