import type { FinishedCallStatus } from '@toolfleet/client';
import { Badge, type Tone } from '../ui/components.js';

/** How a recent call ended, in words. */
export const CALL_STATUS: Readonly<Record<FinishedCallStatus, readonly [Tone, string]>> = {
  success: ['good', 'success'],
  tool_error: ['bad', 'tool failed'],
  refused: ['warn', 'refused'],
  cancelled: ['plain', 'cancelled'],
  system_error: ['bad', 'fleet failed'],
};

/** The outcome of a recent call, and the code of its error. */
export function CallStatusBadge({ status, code }: { status: FinishedCallStatus; code?: string | undefined }) {
  const [tone, text] = CALL_STATUS[status];
  return (
    <span className="row">
      <Badge tone={tone}>{text}</Badge>
      {code !== undefined && <code>{code}</code>}
    </span>
  );
}
