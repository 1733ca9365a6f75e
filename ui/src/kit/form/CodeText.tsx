import { Textarea, type TextareaProps } from '@mantine/core'
import classes from './CodeText.module.css'
import { lineOf } from './code-line'

interface CodeTextProps extends Omit<TextareaProps, 'value' | 'error'> {
  value: string
  error?: string
}

/** A text in a formal language. An error that names a line shows that line. */
export function CodeText({ error, ...field }: CodeTextProps) {
  const line = lineOf(error, field.value)
  return (
    <Textarea
      {...field}
      error={
        error && (
          <>
            {error}
            {line && (
              <code className={`mono ${classes.line}`}>
                {line.number} {line.text}
              </code>
            )}
          </>
        )
      }
      errorProps={{ component: 'div' }}
      classNames={{ input: `mono ${classes.input}` }}
      autosize
      minRows={6}
      maxRows={24}
      autoComplete="off"
      spellCheck={false}
      wrap="off"
    />
  )
}
