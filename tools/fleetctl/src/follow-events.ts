import type { Gateway } from './gateway.js';
import type { Progress } from './progress-line.js';

/**
 * Reads the event stream of a call (`GET /api/v1/calls/:id/events`) and hands on its progress; resolves with true
 * when the call is done, with false when the stream ended otherwise. Progress is for people: whatever goes wrong here is silent, the result is asked for elsewhere.
 */
export async function followEvents(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<boolean> {
  try {
    const lines = gateway.lines(`/api/v1/calls/${encodeURIComponent(callId)}/events`, signal);
    let event = '';
    for await (const line of lines) {
      if (line.startsWith('event: ')) event = line.slice(7);
      if (event === 'done' && line === '') return true;
      if (event === 'progress' && line.startsWith('data: ')) onProgress(JSON.parse(line.slice(6)) as Progress);
    }
  } catch {
    // An older gateway, a proxy that buffers, or the end of the command.
  }
  return false;
}
