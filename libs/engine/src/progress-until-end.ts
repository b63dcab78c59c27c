import type { CallRequest, CallResult } from '@toolfleet/contracts';

type Run = (request: CallRequest) => Promise<CallResult>;

/**
 * Runs a call whose progress somebody may watch: nothing is reported any more once it has ended. Work may outlive its caller
 * (one that shares it with others, an executor that has not heard of the end yet), and watchers take progress for life.
 */
export function progressUntilEnd(request: CallRequest, run: Run): Promise<CallResult> {
  return request.onProgress ? watched(request, request.onProgress, run) : run(request);
}

async function watched(
  request: CallRequest,
  onProgress: NonNullable<CallRequest['onProgress']>,
  run: Run,
): Promise<CallResult> {
  let ended = false;
  try {
    return await run({ ...request, onProgress: (progress) => (ended ? undefined : onProgress(progress)) });
  } finally {
    ended = true;
  }
}
