import classes from './Reference.module.css'

/** What a call does, in HTTP's word for it. */
export const Method = ({ name }: { name: string }) => (
  <span className={classes.method} data-reads={name === 'GET' || undefined}>
    {name}
  </span>
)
