import classes from './Reference.module.css'

export const Method = ({ name }: { name: string }) => (
  <span className={classes.method} data-reads={name === 'GET' || undefined}>
    {name}
  </span>
)
