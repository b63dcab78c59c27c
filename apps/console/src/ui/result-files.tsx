import { toContentFile, toOutputFile, type CallBody, type JsonObject, type ResultFile } from '@toolfleet/client';
import { useEffect, useMemo, useState } from 'react';
import { byteSize } from '../format.js';

/** Types that browsers show as a picture. A picture in `img` runs no script, whatever its format. */
const PICTURE = /^image\/(png|jpeg|gif|webp|avif|svg\+xml)$/;
const SOUND = /^audio\//;

/** The content blocks of a result and its output as files: pictures and sounds are shown, everything can be downloaded. */
export function ResultFiles({ body, tool }: { body: CallBody; tool: string }) {
  const blocks = useMemo(
    () => (body.content ?? []).map((block, index) => ({ block, file: toContentFile(block, `${tool}-${index + 1}`) })),
    [body, tool],
  );
  const output = useMemo(() => toOutputFile(body, tool), [body, tool]);
  const { content_omitted: omitted } = body.metadata;
  const hasOutput = body.output !== null || body.text !== '';
  if (!hasOutput && blocks.length === 0 && omitted === undefined) return null;
  return (
    <div className="stack tight">
      <h3>Files</h3>
      {omitted !== undefined && (
        <p className="small">Pictures and other content were too large and left out: {JSON.stringify(omitted)}</p>
      )}
      <ul className="stack">
        {blocks.map(({ block, file }, index) => (
          <li key={index} className="stack tight">
            {file ? <ShownFile file={file} /> : <Link block={block} />}
          </li>
        ))}
        {hasOutput && (
          <li>
            <Download file={output} />
          </li>
        )}
      </ul>
    </div>
  );
}

function ShownFile({ file }: { file: ResultFile }) {
  const { contentType, name } = file;
  const isPicture = PICTURE.test(contentType);
  const url = useObjectUrl(isPicture || SOUND.test(contentType) ? file : undefined);
  return (
    <>
      {url !== undefined && isPicture && <img className="picture" src={url} alt={`Picture ${name} of the result`} />}
      {url !== undefined && !isPicture && <audio controls src={url} aria-label={`Sound ${name} of the result`} />}
      <span>
        <Download file={file} />
      </span>
      <span className="visually-hidden">{name}</span>
    </>
  );
}

/** A link of a result. Only its address is shown: the console opens no address that a tool chose. */
function Link({ block }: { block: JsonObject }) {
  const { uri, name, type } = block;
  return (
    <span className="small wrap">
      {typeof name === 'string' && `${name}: `}
      <code>{typeof uri === 'string' ? uri : String(type)}</code>
    </span>
  );
}

/** Saves a file. It is sent as bytes without a type, so that no browser opens it as a page of this origin. */
function Download({ file }: { file: ResultFile }) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([file.bytes as BlobPart], { type: 'application/octet-stream' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = file.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <button type="button" className="compact" onClick={save}>
      Download {file.name} <span className="soft">({byteSize(file.bytes.length)})</span>
    </button>
  );
}

/** An address of the bytes of a file while the component is mounted. */
function useObjectUrl(file: ResultFile | undefined): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (!file) return undefined;
    const made = URL.createObjectURL(new Blob([file.bytes as BlobPart], { type: file.contentType }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return url;
}
